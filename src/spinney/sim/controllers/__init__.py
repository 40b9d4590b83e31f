"""Small controllers for the workloads around gangs, where no kube-controller-manager runs."""
