"""The rooms of Tally; README.md, Architecture, has the drawing."""
