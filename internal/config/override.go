package config

import "strconv"

// Overrides are settings that the command line gives in place of the file. What is
// empty is not given.
type Overrides struct {
	// Listen and AdminListen are listen and admin_listen.
	Listen, AdminListen string
	// Strategy is routing.strategy of every pool.
	Strategy string
	// Redis is the one address of redis.addresses.
	Redis string
	// LogLevel and LogFormat are log.level and log.format.
	LogLevel, LogFormat string
}

// Override takes over what is given and checks everything again. Errors name the
// flag that a value came from.
func (c *Config) Override(o Overrides) ([]Warning, error) {
	if c == nil {
		return nil, errNoConfig
	}
	set := func(target *string, value, path, flag string) {
		if value != "" {
			*target = value
			c.origin(path, flag)
		}
	}
	set(&c.Listen, o.Listen, "listen", "--listen")
	set(&c.AdminListen, o.AdminListen, "admin_listen", "--admin-listen")
	set(&c.Log.Level, o.LogLevel, "log.level", "--log-level")
	set(&c.Log.Format, o.LogFormat, "log.format", "--log-format")
	if o.Redis != "" {
		c.Redis.Addresses = []string{o.Redis}
		c.origin("redis.addresses[0]", "--redis")
	}
	for i := range c.Pools {
		set(&c.Pools[i].Routing.Strategy, o.Strategy, "pools["+strconv.Itoa(i)+"].routing.strategy", "--strategy")
	}
	return c.Validate()
}

// origin notes that a value came from a flag.
func (c *Config) origin(path, flag string) {
	if c.flags == nil {
		c.flags = make(map[string]string)
	}
	c.flags[path] = flag
}
