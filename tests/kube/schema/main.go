package main

import (
	_ "k8s.io/api/coordination/v1"
	_ "k8s.io/api/core/v1"
	_ "k8s.io/api/events/v1"
	_ "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {}
