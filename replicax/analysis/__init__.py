"""Tables in, records out: no JAX, no files, no drawing."""
