"""Which of the cards that fit is best: packing, spreading, links between cards."""
