// One job, whatever it is of: `jobs/ID`.

import { useEffect } from "../../vendor/hooks.js";
import { percent } from "../format.js";
import { number } from "../api.js";
import { component, h } from "../html.js";
import { href } from "../router.js";
import { Facts } from "../widgets/facts.js";
import { moment } from "../widgets/moment.js";
import { pending } from "../widgets/page.js";
import { State } from "../widgets/state.js";
import { Explained, useExplanation } from "./job_why.js";

export default component(
  /** @param {import("../routes.js").PageProps} props */
  ({ params }) => {
    const id = params.job ?? "";
    const { data, error, refresh } = useExplanation(id);
    const name = data?.job.name ?? `Job ${id}`;
    useEffect(() => void (document.title = `${name} · Windlass`), [name]);
    if (!data) return pending({ error, refresh });
    const { job } = data;
    const queue = href(`queue/${encodeURIComponent(job.resourcePool)}`, { job: job.jobId });
    return h(
      "section",
      null,
      h("div", { class: "title" }, h("h1", null, name), job.summary && State({ state: job.summary.state })),
      Facts({
        facts: [
          ["Job", job.jobId],
          ["User", job.username],
          ["Pool", h("a", { href: queue }, job.resourcePool)],
          ["Place in the queue", job.position ?? null, "Counting from 1, with those that run"],
          ["Slots held", job.allocatedSlots ?? null],
          ["Slots asked for", job.requestedSlots ?? null, "With those that it holds"],
          ["Priority", job.priority, "1 is served first, 99 last"],
          ["Weight", job.weight, "Its share where the pool shares slots"],
          ["Most slots", job.maxSlots, "max_slots of its configuration"],
          ["Progress", percent(number(job.progress))],
          ["Submitted", moment(job.submissionTime)],
        ],
      }),
      Explained({ explanation: data }),
    );
  },
);
