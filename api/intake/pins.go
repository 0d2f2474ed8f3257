package intake

import (
	"time"

	"github.com/warmroute/warmroute/router"
)

// SessionKey names a session that an engine has begun, with the fleet's secret.
func SessionKey(id, keySeed string) router.PinKey { return router.NewPinKey("session", id, keySeed) }

// ResponseKey names an answer that an engine stores, with the fleet's secret.
func ResponseKey(id, keySeed string) router.PinKey { return router.NewPinKey("response", id, keySeed) }

// FollowPrevious leads a conversation back to the backend that stores its previous answer,
// where the request is bound to none already, and returns the answer's key; 0 where nothing
// is followed. If that backend has left for good, another engine is to say that it does not
// know the conversation.
func FollowPrevious(ask *router.Request, previous, keySeed string, now time.Time) router.PinKey {
	if previous == "" || ask.Pin != "" {
		return 0
	}
	key := ResponseKey(previous, keySeed)
	at := ask.Pool.Pinned(key, now)
	if at == "" {
		return 0
	}
	ask.Pin, ask.PinRequired = at, true
	return key
}
