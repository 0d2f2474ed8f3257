package prompt

// Error says what is wrong with a request body, in words for the caller: a 400.
// It never quotes the prompt.
type Error struct {
	// Message says what was wrong and what is wanted.
	Message string
	// Param is the name of the field at fault, empty when it is the body itself.
	Param string
	// Code is one of the Code constants.
	Code string
}

// The codes of an [Error].
const (
	// CodeInvalidJSON marks a body that is not a JSON object.
	CodeInvalidJSON = "invalid_json"
	// CodeInvalidType marks a field that has the wrong type.
	CodeInvalidType = "invalid_type"
	// CodeTooComplex marks a body with too many values or levels.
	CodeTooComplex = "too_complex"
	// CodeInvalidForm marks a multipart form that cannot be read.
	CodeInvalidForm = "invalid_form"
)

// Error returns the message, and the field at fault if there is one.
func (e *Error) Error() string {
	if e.Param != "" {
		return e.Param + ": " + e.Message
	}
	return e.Message
}
