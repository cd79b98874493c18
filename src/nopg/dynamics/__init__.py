"""Learned models of the system, from the same transitions as the kernel rows.

Kernel rows smooth over states and actions, which biases J on coarse data. Gaussian processes of the
transitions have errors of another kind: a policy that only one of the two believes in exploits an
error. Rollouts in the models tell, and have gradients.
"""
