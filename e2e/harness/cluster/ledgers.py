"""Where Dragoman's records are in the API."""

PATH = "/apis/dragoman.dev/v1alpha1/nodeledgers"
