"""The paper's estimator: responsibilities, P, q, mu, V, J and the gradient."""
