package intake

import (
	"errors"
	"time"

	"github.com/warmroute/warmroute/router"
)

// SessionKey names a session that an engine has begun for somebody, empty for everybody, with the
// fleet's secret.
func SessionKey(id, owner, keySeed string) router.PinKey {
	return pinKey("session", id, owner, keySeed)
}

// ResponseKey is the same for an answer that an engine stores.
func ResponseKey(id, owner, keySeed string) router.PinKey {
	return pinKey("response", id, owner, keySeed)
}

func pinKey(kind, id, owner, keySeed string) router.PinKey {
	if owner != "" {
		id += "\x00" + owner // an id has no such character
	}
	return router.NewPinKey(kind, id, keySeed)
}

// ErrNoPrevious says that the previous answer of a conversation is not one of whoever goes on
// with it.
var ErrNoPrevious = errors.New("previous_response_id: there is no such response, or it is not yours, or it is forgotten")

// FollowPrevious leads a conversation back to the backend that stores its previous answer, where
// the request is bound to none already, and returns the answer's key; 0 where nothing is
// followed. If that backend has left for good, or nothing is known of the answer, an engine is to
// say that it does not know the conversation; where answers have owners, which engines know
// nothing of, it is [ErrNoPrevious].
func FollowPrevious(ask *router.Request, previous, owner, keySeed string, now time.Time) (router.PinKey, error) {
	if previous == "" || ask.Pin != "" && owner == "" {
		return 0, nil
	}
	key := ResponseKey(previous, owner, keySeed)
	at := ask.Pool.Pinned(key, now)
	switch {
	case at == "" && owner != "":
		return 0, ErrNoPrevious
	case at == "", ask.Pin != "":
		return 0, nil
	}
	ask.Pin, ask.PinRequired = at, true
	return key, nil
}
