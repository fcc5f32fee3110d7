// Package routes lists the routes of a gin engine as JSON Lines: call WriteRoutes where the engine is built,
// behind a flag or in a test, and keep what it writes as routes.jsonl.
package routes

import (
	"encoding/json"
	"io"

	"github.com/gin-gonic/gin"
)

// WriteRoutes writes one line for each route of the engine.
func WriteRoutes(out io.Writer, engine *gin.Engine) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for _, route := range engine.Routes() {
		line := struct {
			Method string `json:"method"`
			Path   string `json:"path"`
			Source string `json:"source"`
		}{route.Method, route.Path, route.Handler}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}
