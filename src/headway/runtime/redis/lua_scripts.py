"""Lua scripts, which the server runs atomically. Each uses the names of one key or one run.

Values: a lease contains its claim; the interactive flag contains the phase and the claim; an
interrupt hash has a field `?<call_id>` for each open interrupt and `!<call_id>` for each answer; a
queue begins with the claim that may drain it, and exists only while messages are accepted.
"""

from typing import Final

# Use sharded pub/sub if the server has SPUBLISH. Subscribers try the same command to choose.
_PUBLISH: Final = """
local function publish(channel, message)
  local reply = redis.pcall('SPUBLISH', channel, message)
  if type(reply) == 'table' and reply.err then redis.call('PUBLISH', channel, message) end
end
"""

_EXTEND: Final = """
local function extend(name, ttl_ms)
  if redis.call('PTTL', name) < tonumber(ttl_ms) then redis.call('PEXPIRE', name, ttl_ms) end
end
"""

ACQUIRE_LEASE: Final = """
-- KEYS lease, interactive; ARGV claim, ttl_ms. Returns another holder's claim, or false.
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return holder end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if not holder then redis.call('DEL', KEYS[2]) end
return false
"""

RENEW_LEASE: Final = """
-- KEYS lease, interactive; ARGV claim, ttl_ms
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return 1
"""

RELEASE_LEASE: Final = """
-- KEYS lease, interactive; ARGV claim
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
return 1
"""

MARK_INTERACTIVE: Final = """
-- KEYS lease, interactive; ARGV claim, flag. The flag expires with the lease at the latest.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', math.max(redis.call('PTTL', KEYS[1]), 1))
return 1
"""

CLEAR_INTERACTIVE: Final = """
-- KEYS lease, interactive; ARGV claim
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[2]) end
"""

OPEN_QUEUE: Final = """
-- KEYS queue; ARGV claim, ttl_ms. Messages that an earlier claim did not drain stay.
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('LSET', KEYS[1], 0, ARGV[1])
else redis.call('RPUSH', KEYS[1], ARGV[1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""

CLOSE_QUEUE: Final = """
-- KEYS queue; ARGV claim. Returns the messages that were not drained.
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return {} end
local left = redis.call('LRANGE', KEYS[1], 1, -1)
redis.call('DEL', KEYS[1])
return left
"""

INJECT: Final = (
    _PUBLISH
    + """
-- KEYS queue, channel; ARGV message, message_count_max, ttl_ms, hint
local length = redis.call('LLEN', KEYS[1])
if length == 0 then return 'not_streaming' end
if length > tonumber(ARGV[2]) then return 'full' end
redis.call('RPUSH', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
publish(KEYS[2], ARGV[4])
return 'injected'
"""
)

DRAIN: Final = """
-- KEYS queue; ARGV claim, ttl_ms
if redis.call('LINDEX', KEYS[1], 0) ~= ARGV[1] then return {} end
local messages = redis.call('LRANGE', KEYS[1], 1, -1)
redis.call('LTRIM', KEYS[1], 0, 0)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return messages
"""

OPEN_INTERRUPT: Final = (
    _EXTEND
    + """
-- KEYS interrupt, cancel; ARGV call_id, ttl_ms, interrupt_count_max, answer if canceled.
-- Opens the interrupt if needed. Returns its answer, '' if it is open, or false if there are too
-- many.
local answer = redis.call('HGET', KEYS[1], '!' .. ARGV[1])
if answer then return answer end
if redis.call('HEXISTS', KEYS[1], '?' .. ARGV[1]) == 0 then
  if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return false end
  if redis.call('EXISTS', KEYS[2]) == 1 then
    redis.call('HSET', KEYS[1], '!' .. ARGV[1], ARGV[4])
    extend(KEYS[1], ARGV[2])
    return ARGV[4]
  end
  redis.call('HSET', KEYS[1], '?' .. ARGV[1], '')
end
extend(KEYS[1], ARGV[2])
return ''
"""
)

CLOSE_INTERRUPT: Final = """
-- KEYS interrupt; ARGV call_id. Returns an answer that arrived last, or closes the interrupt.
local answer = redis.call('HGET', KEYS[1], '!' .. ARGV[1])
if not answer then redis.call('HDEL', KEYS[1], '?' .. ARGV[1]) end
return answer
"""

RESOLVE_INTERRUPT: Final = (
    _PUBLISH
    + """
-- KEYS interrupt, channel; ARGV call_id, answer, hint
-- HSET before HDEL: a hash that becomes empty is deleted, and its expiry with it.
if redis.call('HEXISTS', KEYS[1], '?' .. ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], '!' .. ARGV[1], ARGV[2])
  redis.call('HDEL', KEYS[1], '?' .. ARGV[1])
  publish(KEYS[2], ARGV[3])
  return 'resolved'
end
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, 1) == '?' then return 'stale' end
end
return 'not_waiting'
"""
)

CANCEL: Final = (
    _PUBLISH
    + """
-- KEYS cancel, interrupt, channel; ARGV ttl_ms, answer, hint
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
for _, field in ipairs(redis.call('HKEYS', KEYS[2])) do
  if string.sub(field, 1, 1) == '?' then
    redis.call('HSET', KEYS[2], '!' .. string.sub(field, 2), ARGV[2])
    redis.call('HDEL', KEYS[2], field)
  end
end
publish(KEYS[3], ARGV[3])
"""
)

PUBLISH: Final = _PUBLISH + "publish(KEYS[1], ARGV[1])"

CLEAN_UP: Final = (
    _PUBLISH
    + """
-- KEYS interrupt, cancel, queue, channel; ARGV hint
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
publish(KEYS[4], ARGV[1])
"""
)
