"""One file for each kind of object that the service reads or writes by request."""
