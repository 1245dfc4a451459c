// Nothing: it carries the headers that all tests share, read once.
