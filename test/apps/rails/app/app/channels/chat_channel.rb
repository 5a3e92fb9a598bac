class ChatChannel < ApplicationCable::Channel
  def subscribed = stream_from("chat")

  def speak(data) = ActionCable.server.broadcast("chat", {text: data["text"], notes: Note.count})
end
