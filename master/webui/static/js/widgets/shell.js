// What is around each page: where one can go, who one is, and whether the master answers.

import { useEffect, useState } from "../../vendor/hooks.js";
import { component, group, h } from "../html.js";
import { bind } from "../keys.js";
import { PLACES } from "../places.js";
import { ROOT, address, go, href } from "../router.js";
import { newVersion } from "../socket.js";
import { isAway, isSessionOver, me, theme } from "../store.js";
import { ClusterMessage } from "./cluster_message.js";
import { KeyHelp } from "./key_help.js";
import { Notices } from "./notices.js";
import { Palette } from "./palette.js";
import { SessionOver } from "./session_over.js";

const THEMES = ["", "light", "dark"];

export const Shell = component(
  /** @param {{ children: import("../html.js").Children }} props */
  ({ children }) => {
    const here = address.value.path.split("/")[0] || "dashboard";
    useEffect(() => {
      // On a phone the bar at the bottom has more places than fit.
      document.querySelector(".places [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
    }, [here]);
    const [over, setOver] = useState(/** @type {"palette" | "keys" | null} */ (null));
    useEffect(
      () =>
        bind({
          ...Object.fromEntries(PLACES.map(({ key, path }) => [key, () => go(href(path))])),
          "Ctrl+k": () => setOver("palette"),
          "/": () => setOver("palette"),
          "?": () => setOver("keys"),
          f: () => document.getElementById("filter")?.focus(),
        }),
      [],
    );
    const close = () => setOver(null);
    return group(
      h("a", { class: "skip", href: "#main" }, "To the content"),
      h(
        "header",
        { class: "top" },
        h("a", { class: "brand", href: href("dashboard") }, document.documentElement.dataset.cluster || "Windlass"),
        h(
          "nav",
          { class: "places", "aria-label": "Pages" },
          PLACES.map(({ title, path, key, begins }) =>
            h(
              "a",
              {
                key: path,
                href: href(path),
                title: `${title} (${key})`,
                "aria-current": begins.includes(here) ? "page" : undefined,
              },
              title,
            ),
          ),
        ),
        Person({ find: () => setOver("palette") }),
      ),
      isAway.value &&
        h(
          "p",
          { class: "banner", role: "alert" },
          "The master does not answer. What is shown may be old; it is asked again.",
        ),
      ClusterMessage({}),
      newVersion.value &&
        h(
          "p",
          { class: "banner note", role: "status" },
          `The master was updated to ${newVersion.value}. `,
          h("button", { type: "button", class: "plain", onClick: () => location.reload() }, "Load this page again"),
        ),
      h("main", { id: "main", tabIndex: -1, class: isAway.value ? "stale" : "" }, children),
      Notices({}),
      over === "palette" && Palette({ onClose: close }),
      over === "keys" && KeyHelp({ onClose: close }),
      isSessionOver.value && SessionOver({}),
    );
  },
);

const Person = component(
  /** @param {{ find: () => void }} props */
  ({ find }) => {
    const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "";
    return h(
      "div",
      { class: "person" },
      h("button", { type: "button", class: "plain", onClick: find, title: "By name or id (Ctrl+K or /)" }, "Find…"),
      h(
        "button",
        {
          type: "button",
          class: "plain",
          onClick: () => (theme.value = next),
          title: "Light, dark, or as the system has it",
        },
        `Theme: ${theme.value || "system"}`,
      ),
      h("a", { href: href("settings"), title: "Your settings" }, me.value?.username ?? ""),
      h("a", { href: `${ROOT}det/login`, "data-reload": "" }, "Log in as another user"),
    );
  },
);
