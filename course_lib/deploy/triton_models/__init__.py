"""What `triton` copies, as it is, into the repositories that it writes.

These files run in the server's own environment, without course_lib, so each stands alone.
"""
