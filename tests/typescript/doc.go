// Package typescript holds the test that the public TypeScript client of Connect works with
// the RPC interface. Its packages come by: npm install (make test-typescript).
package typescript
