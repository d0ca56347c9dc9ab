"""Direct convolution on channel-blocked layouts, and from plain NCHW input."""
