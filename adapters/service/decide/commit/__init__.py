"""What allocates: the commit, from the choice of cards to the Binding."""
