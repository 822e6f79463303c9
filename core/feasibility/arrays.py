"""Arrays over many nodes, and the index spaces that they use.

A *row* is a node's position in the inventory, 0 to ``len(inventory) - 1``. The next number,
``len(inventory)``, is the row of every node that the inventory does not know, so that an array
with one spare cell at its end answers for those too. Rows change when nodes are added or removed
(``Inventory.membership_version``), and only then.

A *class id* (``Inventory.node_class``) is equal for nodes that differ only in names and uuids.
"""

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Rows = NDArray[np.int32]
