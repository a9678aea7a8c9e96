"""What notebooks draw and check with: style, shared figures, widgets, checks of exercises."""
