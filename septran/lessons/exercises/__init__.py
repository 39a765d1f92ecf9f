"""One file a lesson, each with a `LESSON`."""
