"""The model repository for NVIDIA Triton: written here, and the code that its models run."""
