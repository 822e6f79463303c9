"""Lists and watches: a local copy of objects that follows the API server."""
