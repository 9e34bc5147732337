"""Tests of the log analyser."""
