"""Reads ONNX models: checks, limits, and the way into Relax."""
