"""What `triton` and `paddle_serving` copy, as it is, into the directories that they write.

These files run in the servers' own environments, without course_lib, so each stands alone.
"""
