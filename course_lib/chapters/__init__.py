"""One companion module per chapter. Nothing else in the library imports them."""
