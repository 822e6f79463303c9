"""C programs that play NVIDIA's libraries, HAMi-core and a program of a container."""
