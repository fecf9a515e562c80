"""quantgate: which quantization level of our LLM do we ship?"""

__version__ = "0.1.0"
