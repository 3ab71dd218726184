"""Records in; text, pictures and JSON out."""
