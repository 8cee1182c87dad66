"""What strangers can send, read by the functions that read it first, with a fuzzer behind and without one."""
