class PicturesController < ApplicationController
  def create
    picture = Picture.create!(file: params.require(:file))
    render json: {id: picture.id, bytes: picture.file.byte_size, url: rails_blob_path(picture.file, disposition: "attachment")}
  end

  def show = redirect_to(rails_blob_path(Picture.find(params[:id]).file))
end
