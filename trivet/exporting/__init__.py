"""What `trivet export` needs: traced graphs, quantization, parity gates and targets."""
