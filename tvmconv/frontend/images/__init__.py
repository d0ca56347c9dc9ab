"""Whether a network treats the images of a batch separately, and where its values hold them."""
