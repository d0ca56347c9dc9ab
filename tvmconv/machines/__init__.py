"""What is known of the processors that code is generated for, and of this one."""
