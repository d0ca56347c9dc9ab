"""All that tvmconv takes from TVM: one module for each part of TVM, named after it, and types."""
