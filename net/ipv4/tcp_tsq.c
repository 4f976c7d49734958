// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Small Queues: how much of a socket's data may wait for TX completions.
 *
 * Without lateness that is what the pacing rate sends in about 1 ms. A device
 * that completes later than that (interrupt moderation, aggregation, a busy
 * host) has sent everything long before the socket hears of it, and idles.
 *
 * So the socket learns a time from its own completions, in the spirit of BQL
 * (lib/dynamic_queue_limits.c):
 *
 *  - A throttled socket that finds nothing left in the queues below it, and has
 *    data to send, has starved the device. It has waited for as long as the
 *    completion was late, but for what a queue on the path explains, which the
 *    RTT shows. The shorter of two such times counts: one stall is no lateness.
 *    Should it starve again with that time, then the time grows by an eighth
 *    in each RTT, as wmem counts more than what is on the wire.
 *
 *  - What was never needed in TCP_TSQ_WINDOW_US is slack, and given back. So is
 *    what a queue on the path lasts longer than completions are late: with many
 *    flows the others keep the device busy while one waits.
 */

#include <linux/minmax.h>
#include <net/tcp.h>

/* Lateness that the pacing rate and sk_pacing_shift allow for */
#define TCP_TSQ_MIN_US		1000
/* Truesize is at most that many times what is on the wire */
#define TCP_TSQ_MAX_FACTOR	4
#define TCP_TSQ_MAX_US		(USEC_PER_SEC / 2)
#define TCP_TSQ_WINDOW_US	(250 * USEC_PER_MSEC)

/* What was never needed in a window is given back */
static u32 tcp_tsq_slack(struct tcp_tsq *tsq, u32 time_us, u32 now_us,
			 u32 slack_us)
{
	tsq->slack_us = min(tsq->slack_us, slack_us);
	if (now_us - tsq->window_us < TCP_TSQ_WINDOW_US)
		return time_us;

	slack_us = tsq->slack_us;
	tsq->slack_us = U32_MAX;
	tsq->window_us = now_us;
	if (slack_us <= time_us / 8)
		return time_us;
	time_us -= min(slack_us, time_us);
	return time_us > TCP_TSQ_MIN_US ? time_us : 0;
}

static u32 tcp_tsq_starved(struct tcp_tsq *tsq, u32 time_us,
			   const struct tcp_tsq_sample *s)
{
	u32 late_us = s->waited_us - min(s->waited_us, s->queue_us);
	u32 last_us = tsq->late_us;

	tsq->late_us = late_us;
	if (!last_us)
		tsq->grown_us = s->now_us;

	late_us = min3(late_us, last_us, TCP_TSQ_MAX_US / TCP_TSQ_MAX_FACTOR);
	/* A queue that lasts longer than completions are late: others keep the
	 * device busy while this socket waits.
	 */
	if (s->queue_us >= late_us)
		return tcp_tsq_slack(tsq, time_us, s->now_us,
				     s->queue_us - late_us);

	tsq->slack_us = 0;
	if (late_us <= TCP_TSQ_MIN_US || s->capped)
		return time_us;
	/* The RTT knows of what was sent two RTTs ago */
	if (s->now_us - tsq->grown_us < (time_us ? 1 : 2) * s->rtt_us)
		return time_us;

	tsq->grown_us = s->now_us;
	if (time_us < late_us)
		return late_us;
	return max(time_us, min(time_us + late_us / 8,
				late_us * TCP_TSQ_MAX_FACTOR));
}

/**
 * tcp_tsq_update - learn from a TX completion
 * @tsq: what the socket remembers
 * @time_us: what it has learned so far; 0: nothing
 * @s: what the completion shows
 *
 * A function of its arguments alone.
 *
 * Return: the time to allow for at the pacing rate, in us; 0: no more than
 * sk_pacing_shift does.
 */
u32 tcp_tsq_update(struct tcp_tsq *tsq, u32 time_us,
		   const struct tcp_tsq_sample *s)
{
	if (!s->left_us)
		return tcp_tsq_starved(tsq, time_us, s);
	return time_us ? tcp_tsq_slack(tsq, time_us, s->now_us, s->left_us) : 0;
}
