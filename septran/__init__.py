"""An AI compiler that keeps the logic of an operator and its mapping to hardware apart."""
