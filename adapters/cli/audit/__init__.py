"""Looks for what is wrong with the cards of a cluster, and reads only."""
