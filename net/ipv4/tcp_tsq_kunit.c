// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of how TCP Small Queues learn from TX completions.
 *
 * A simulated device completes everything that it was given so late; the socket
 * gives it what the limit allows at its rate, and hears of it then. What is
 * checked is what that comes to, not how tcp_tsq_update() computes it.
 */

#include <kunit/test.h>
#include <linux/prandom.h>
#include <net/tcp.h>

#define RTT_US		5000
#define WINDOW_US	(250 * USEC_PER_MSEC)

struct sim {
	struct tcp_tsq tsq;
	u32 now_us;
	u32 time_us;	/* learned */
	u32 overhead;	/* truesize of a byte on the wire, in 1/8 */
	u32 queue_us;	/* standing on the path */
	bool capped;
};

static void sim_init(struct kunit *test, struct sim *sim)
{
	memset(sim, 0, sizeof(*sim));
	/* Times wrap soon */
	sim->now_us = U32_MAX - 100 * USEC_PER_MSEC;
	sim->overhead = 8;
}

static u32 sim_update(struct sim *sim, u32 waited_us, u32 left_us)
{
	struct tcp_tsq_sample sample = {
		.now_us = sim->now_us,
		.waited_us = waited_us,
		.queue_us = sim->queue_us,
		.rtt_us = RTT_US + sim->queue_us,
		.left_us = left_us,
		.capped = sim->capped,
	};

	sim->time_us = tcp_tsq_update(&sim->tsq, sim->time_us, &sample);
	return sim->time_us;
}

/* How long the bytes in the queues last that the limit allows for */
static u32 sim_allowed_us(const struct sim *sim)
{
	return max(sim->time_us, 1000u) * 8 / sim->overhead;
}

/* One completion, late_us after the socket was throttled. Returns whether the
 * device had starved by then.
 */
static bool sim_complete(struct sim *sim, u32 late_us)
{
	u32 allowed_us = sim_allowed_us(sim);
	bool starved = allowed_us <= late_us;

	sim->now_us += late_us;
	sim_update(sim, late_us, starved ? 0 : (allowed_us - late_us) *
						sim->overhead / 8);
	return starved;
}

/* Completions for so long; returns how many of them came to a starved device */
static u32 sim_run(struct sim *sim, u32 late_us, u32 for_us)
{
	u32 end_us = sim->now_us + for_us;
	u32 starved = 0;

	while ((s32)(end_us - sim->now_us) > 0)
		starved += sim_complete(sim, late_us);
	return starved;
}

struct late_param {
	const char *name;
	u32 late_us;
	u32 overhead;
};

static const struct late_param late_params[] = {
	{ "1.1 ms", 1100, 8 },
	{ "1.5 ms", 1500, 8 },
	{ "2 ms", 2000, 8 },
	{ "2 ms, small packets", 2000, 16 },
	{ "4 ms", 4000, 8 },
	{ "4 ms, small packets", 4000, 24 },
	{ "8 ms", 8000, 8 },
	{ "50 ms", 50000, 8 },
	{ "100 ms", 100000, 8 },
};

KUNIT_ARRAY_PARAM_DESC(late, late_params, name);

/* The device starves no more, with at most an eighth too much, and it stays so */
static void converges(struct kunit *test)
{
	const struct late_param *param = test->param_value;
	struct sim sim;
	u32 needed_us;
	int i;

	sim_init(test, &sim);
	sim.overhead = param->overhead;
	needed_us = param->late_us * param->overhead / 8;

	sim_run(&sim, param->late_us, 40 * max(param->late_us, RTT_US));
	KUNIT_EXPECT_GE(test, sim.time_us, needed_us);
	KUNIT_EXPECT_LE(test, sim.time_us, needed_us + param->late_us / 4 + 1);

	for (i = 0; i < 8; i++) {
		sim_run(&sim, param->late_us, WINDOW_US);
		KUNIT_EXPECT_GE(test, sim.time_us,
				needed_us - param->late_us / 4);
		KUNIT_EXPECT_LE(test, sim.time_us,
				needed_us + param->late_us / 4 + 1);
	}
}

/* Lateness that sk_pacing_shift allows for is not learned */
static void in_time(struct kunit *test)
{
	struct sim sim;
	u32 late_us;

	for (late_us = 1; late_us <= 1000; late_us++) {
		sim_init(test, &sim);
		/* Small packets let the device starve, and it is not late */
		sim.overhead = 32;
		sim_run(&sim, late_us, 100 * late_us);
		KUNIT_EXPECT_EQ(test, sim.time_us, 0);
	}
}

/* One stall, however long, among completions in time */
static void one_stall(struct kunit *test)
{
	struct sim sim;
	u32 stall_us;

	for (stall_us = 2000; stall_us < 10 * USEC_PER_SEC; stall_us *= 2) {
		sim_init(test, &sim);
		sim_run(&sim, 500, 10000);
		sim_update(&sim, 500, 0);
		KUNIT_EXPECT_TRUE(test, sim_complete(&sim, stall_us));
		KUNIT_EXPECT_EQ(test, sim.time_us, 0);
		sim_update(&sim, 500, 0);
		KUNIT_EXPECT_EQ(test, sim.time_us, 0);
	}
}

/* What waits on the path is no lateness of the device */
static void queue_on_path(struct kunit *test)
{
	struct sim sim;
	int i;

	sim_init(test, &sim);
	sim.queue_us = 3000;
	for (i = 0; i < 1000; i++) {
		sim.now_us += 3500;
		sim_update(&sim, 3500, 0);
	}
	KUNIT_EXPECT_EQ(test, sim.time_us, 0);
}

/* Who waits behind others' data does not let the device idle: nothing is learned,
 * and what was learned is given back
 */
static void busy_by_others(struct kunit *test)
{
	struct sim sim;
	int i;

	sim_init(test, &sim);
	sim.queue_us = 2500;
	for (i = 0; i < 1000; i++) {
		sim.now_us += 4500;
		sim_update(&sim, 4500, 0);
		KUNIT_EXPECT_EQ(test, sim.time_us, 0);
	}

	sim.queue_us = 0;
	sim_run(&sim, 2000, 40 * RTT_US);
	KUNIT_ASSERT_GE(test, sim.time_us, 2000);
	sim.queue_us = 4000;
	for (i = 0; i < 1000; i++) {
		sim.now_us += 6000;
		sim_update(&sim, 6000, 0);
	}
	KUNIT_EXPECT_EQ(test, sim.time_us, 0);
}

/* Where the sysctl bounds the limit a longer time would only last longer */
static void capped(struct kunit *test)
{
	struct sim sim;

	sim_init(test, &sim);
	sim.overhead = 64;
	sim.capped = true;
	sim_run(&sim, 4000, USEC_PER_SEC);
	KUNIT_EXPECT_EQ(test, sim.time_us, 0);
}

/* Completions that are in time again: nothing is left within two windows */
static void shrinks(struct kunit *test)
{
	const struct late_param *param = test->param_value;
	struct sim sim;
	u32 before_us;

	sim_init(test, &sim);
	sim.overhead = param->overhead;
	sim_run(&sim, param->late_us, 40 * max(param->late_us, RTT_US));
	before_us = sim.time_us;
	KUNIT_ASSERT_GT(test, before_us, 0);

	sim_run(&sim, 10, 2 * WINDOW_US + 20);
	KUNIT_EXPECT_LE(test, sim.time_us, before_us / 2);
	sim_run(&sim, 10, 4 * WINDOW_US);
	KUNIT_EXPECT_EQ(test, sim.time_us, 0);
}

/* First after two RTTs, when the RTT tells of a queue; then one step an RTT */
static void grows_in_steps(struct kunit *test)
{
	struct sim sim;
	u32 last_us;
	int i;

	sim_init(test, &sim);
	for (i = 0; i < 20; i++) {
		sim_update(&sim, 2000, 0);
		KUNIT_EXPECT_EQ(test, sim.time_us, 0);
		sim.now_us += RTT_US / 10;
	}
	sim_update(&sim, 2000, 0);
	KUNIT_EXPECT_EQ(test, sim.time_us, 2000);
	for (i = 0; i < 1000; i++) {
		last_us = sim.time_us;
		sim.now_us += RTT_US / 10;
		sim_update(&sim, 2000, 0);
		KUNIT_EXPECT_LE(test, sim.time_us, last_us + 250);
		KUNIT_EXPECT_LE(test, sim.time_us, 2000 + 250 * (1 + i / 10));
	}
	KUNIT_EXPECT_EQ(test, sim.time_us, 4 * 2000);
}

/* Whatever is seen: bounds, and no growth but on starvation */
static void bounds(struct kunit *test)
{
	struct rnd_state rnd;
	struct sim sim;
	u32 last_us;
	int i;

	sim_init(test, &sim);
	prandom_seed_state(&rnd, 1);
	for (i = 0; i < 1000000; i++) {
		u32 r = prandom_u32_state(&rnd);
		u32 waited_us = prandom_u32_state(&rnd) >> (r % 32);
		u32 left_us = r & BIT(8) ? 0 :
			      (prandom_u32_state(&rnd) >> (r / 32 % 32)) + !(r & 1);

		sim.queue_us = prandom_u32_state(&rnd) >> (r / 1024 % 32);
		sim.capped = !(r & 0x70000000);
		sim.now_us += waited_us;
		last_us = sim.time_us;
		sim_update(&sim, waited_us, left_us);
		if (sim.time_us > USEC_PER_SEC / 2 ||
		    (sim.time_us && sim.time_us <= 1000))
			KUNIT_FAIL(test, "step %d: learned %u us", i,
				   sim.time_us);
		if (sim.time_us > last_us && (left_us || sim.capped))
			KUNIT_FAIL(test, "step %d: grew to %u us", i,
				   sim.time_us);
		if (sim.time_us < last_us && !left_us && !sim.queue_us)
			KUNIT_FAIL(test, "step %d: shrank to %u us", i,
				   sim.time_us);
	}
}

struct rate_param {
	const char *name;
	u64 rate;	/* bytes/s */
};

static const struct rate_param rate_params[] = {
	{ "64 kbit/s", 64000 / 8 },
	{ "10 Mbit/s", 10000000 / 8 },
	{ "10 Gbit/s", 10000000000ULL / 8 },
	{ "400 Gbit/s", 400000000000ULL / 8 },
	{ "10 Tbit/s", 10000000000000ULL / 8 },
};

KUNIT_ARRAY_PARAM_DESC(rate, rate_params, name);

/* No overflow, and short by no more than 2^20 / 10^6 and the rate's rounding */
static void bytes(struct kunit *test)
{
	const struct rate_param *param = test->param_value;
	u32 time_us;

	for (time_us = 0; time_us <= USEC_PER_SEC / 2; time_us += 250) {
		u64 exact = div_u64(param->rate * time_us, USEC_PER_SEC);
		u64 bytes = tcp_tsq_bytes(param->rate, time_us);

		KUNIT_EXPECT_LE(test, bytes, exact);
		KUNIT_EXPECT_GE(test, bytes + time_us / 512 + 2,
				exact - exact / 16);
	}
}

static struct kunit_case tcp_tsq_cases[] = {
	KUNIT_CASE_PARAM(converges, late_gen_params),
	KUNIT_CASE(in_time),
	KUNIT_CASE(one_stall),
	KUNIT_CASE(queue_on_path),
	KUNIT_CASE(busy_by_others),
	KUNIT_CASE(capped),
	KUNIT_CASE_PARAM(shrinks, late_gen_params),
	KUNIT_CASE(grows_in_steps),
	KUNIT_CASE_SLOW(bounds),
	KUNIT_CASE_PARAM(bytes, rate_gen_params),
	{}
};

static struct kunit_suite tcp_tsq_suite = {
	.name = "tcp_tsq",
	.test_cases = tcp_tsq_cases,
};

kunit_test_suite(tcp_tsq_suite);

MODULE_DESCRIPTION("KUnit tests of TCP Small Queues");
MODULE_LICENSE("GPL");
