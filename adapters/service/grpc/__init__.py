"""The service over gRPC, for programs of its machine; the messages are in dragoman.proto."""
