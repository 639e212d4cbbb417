//go:build !linux

package main

// dropOwnPages has no counterpart here.
func dropOwnPages() {}
