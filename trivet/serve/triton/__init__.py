"""The model repository for NVIDIA Triton, and the code of its models."""
