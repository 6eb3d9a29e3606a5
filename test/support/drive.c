#include "support/drive.h"

#include "support/sim.h"

void drive_client(el_client *client)
{
    bool any = client != NULL, ended;
    while (any) {
        any = false;
        for (int lane = 0; lane < EL_LANES; lane++) {
            while (el_client_turn(client, (el_lane)lane, false, &ended))
                any = true;
            int64_t next_ns = el_client_next_ns(client, (el_lane)lane);
            if (next_ns <= el_now(client)) any = true;
            sim_wake_at(client->transport, (el_lane)lane, next_ns);
        }
    }
}
