"""A smooth model of the system, learned from the same transitions as a second opinion.

The kernel rows of P smooth over states and actions, which biases J on coarse data.
A Gaussian process regression of the transitions has other errors: where the two
disagree about a policy, one of them is wrong, and following the policy through the
model tells which policies only look good to the kernels.
"""
