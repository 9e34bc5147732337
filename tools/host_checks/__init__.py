"""What real agent hosts make of the bundle, without an account and without a model."""
