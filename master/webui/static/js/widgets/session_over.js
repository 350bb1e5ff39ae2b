// The session has ended: a new one begins over the page, which loses nothing that was typed.

import { useState } from "../../vendor/hooks.js";
import { api, ok } from "../api.js";
import { component, h } from "../html.js";
import { isSessionOver, me } from "../store.js";
import { Dialog } from "./dialog.js";

export const SessionOver = component(() => {
  const [{ problem, isBusy }, set] = useState({ problem: "", isBusy: false });
  const submit = async (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    set({ problem: "", isBusy: true });
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const body = { username: String(form.get("username")), password: String(form.get("password")) };
    try {
      const { user } = await ok(api.POST("/api/v1/auth/login", { body }));
      if (me.value && me.value.id !== user.id) return location.reload();
      isSessionOver.value = false;
    } catch (error) {
      set({ problem: error instanceof Error ? error.message : String(error), isBusy: false });
    }
  };
  return Dialog({
    title: "Your session has ended",
    mayClose: false,
    onClose: () => {},
    children: h(
      "form",
      { onSubmit: submit },
      problem && h("p", { class: "problem", role: "alert" }, problem),
      h("label", { for: "username" }, "User"),
      h("input", {
        id: "username",
        name: "username",
        autocomplete: "username",
        defaultValue: me.value?.username ?? "",
        required: true,
      }),
      h("label", { for: "password" }, "Password"),
      h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password" }),
      h("button", { disabled: isBusy }, "Log in"),
    ),
  });
});
