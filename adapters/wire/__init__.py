"""Other people's JSON, typed and partial: only the fields that we read.

Bytes to structs and back; what a field means is for the dialects to say.
"""
