class NotesController < ApplicationController
  def index
    @notes = Note.order(:id)
    respond_to do |format|
      format.html
      format.json { render json: @notes.as_json(only: %i[id title details]) }
    end
  end

  def show = render(json: Note.find(params[:id]).as_json(only: %i[id title details]))

  def create
    note = Note.new(title: params[:title], details: {length: params[:title].to_s.size})
    return render(json: note.errors, status: 422) unless note.save
    respond_to do |format|
      format.html { redirect_to notes_path, status: :see_other }
      format.turbo_stream { render turbo_stream: turbo_stream.append("notes", partial: "notes/note", locals: {note:}) }
    end
  end
end
