"""Whole tasks, one room each, that an engineer copies as they are."""
